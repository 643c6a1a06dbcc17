"""Games by hands on the device: public nodes × hands instead of histories."""
