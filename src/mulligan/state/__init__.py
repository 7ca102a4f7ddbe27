"""What a checkpoint holds besides files: values that registered providers give and take back."""
