"""`gpupool advise`: what families of jobs should ask for, and applying it."""
