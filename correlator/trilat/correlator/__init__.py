"""Everything after the measurement: align, attribute, sketch, judge, report; the command line."""
