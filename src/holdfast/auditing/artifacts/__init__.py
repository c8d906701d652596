"""What an audit leaves beside its numbers: pictures, attention maps, learned noises."""
