"""Behind every published figure. `python -m bench` prints them all, in one run, each beside what it is measured against."""
