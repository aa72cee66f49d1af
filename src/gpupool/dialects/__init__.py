"""Foreign words become our claim: one file per system, pure, used alike by admission and by `gpupool import`."""
