"""Models, profiles and checks that several test modules share."""
