"""Holdfast: how well do an image encoder's representations hold when the image is disturbed?"""
