"""Command prompts of `holdfast ui --terminal`: shells at a terminal, and what a terminal shows of their output."""
