"""Everything that turns a run into something to look at: cards, charts, comparisons, endings."""
