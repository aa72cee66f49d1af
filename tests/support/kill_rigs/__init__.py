"""Every mechanism, layer and mode switch on a fake root, so that its calls can be killed anywhere."""
