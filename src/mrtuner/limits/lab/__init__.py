"""A laboratory of labelled series: physics of ten seconds, by another hand than the detector."""
