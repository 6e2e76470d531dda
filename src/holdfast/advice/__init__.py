"""Why a run left its GPU idle, and the line to change."""
