"""What every room uses: files, progress, compilation, time."""
