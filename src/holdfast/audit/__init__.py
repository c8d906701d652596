"""Plan, observe, score, record. Called, `holdfast.audit(model, images)`, it is `holdfast.api.audit`."""
