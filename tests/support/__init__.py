"""Code that several tests share: fixtures, reference models, replays of recordings, processes."""
