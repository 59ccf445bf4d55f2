"""Settings better than the advice for one load: searched for in races, confirmed afresh."""
