"""Would it have worked? Accuracy, replay and off-policy estimates, A/B read-out, and judgement by a simulated truth."""
