"""What exists and costs, by source, joined with a plan. Reads only."""
