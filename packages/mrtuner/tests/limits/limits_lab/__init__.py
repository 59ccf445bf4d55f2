"""A laboratory of labelled series: physics in ten-second steps, independent of the detector."""
