"""The walkthrough's pictures: scenes of one imaginary project, drawn by the real console from real engine values."""
