"""`gpupool template`: templates, their versions, and jobs that they make."""
