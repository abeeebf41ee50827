"""A prediction from files that is shown to a person: classes, boxes, masks, maps, points, texts."""
