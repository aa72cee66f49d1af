#!/bin/bash
#SBATCH --job-name=train --partition=gpu
#SBATCH --gres=shard:4
#SBATCH --time=2:00:00
#SBATCH --mem=16G --array=0-7%2
srun python train.py
