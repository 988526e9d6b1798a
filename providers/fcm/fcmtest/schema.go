package fcmtest

// The fields of a send request. Source: REST reference of
// projects.messages.send and projects.messages, v1.
var (
	sendRequest = fields{"validate_only": truth, "message": message}

	message = fields{
		"name": text, "data": data, "notification": notification, "android": android,
		"webpush": webpush, "apns": apns, "fcm_options": fields{"analytics_label": label},
		"fid": text, "token": text, "topic": text, "condition": text,
	}

	notification = fields{"title": text, "body": text, "image": image}

	android = fields{
		"collapse_key": text, "priority": oneOf("normal", "high", "NORMAL", "HIGH"), "ttl": ttl,
		"restricted_package_name": text, "data": data, "notification": androidNotification,
		"fcm_options": fields{"analytics_label": label}, "direct_boot_ok": truth,
		"bandwidth_constrained_ok": truth, "restricted_satellite_ok": truth,
	}

	androidNotification = fields{
		"title": text, "body": text, "icon": text, "color": color, "sound": text, "tag": text,
		"click_action": text, "body_loc_key": text, "body_loc_args": list{text},
		"title_loc_key": text, "title_loc_args": list{text}, "channel_id": text, "ticker": text,
		"sticky": truth, "event_time": instant, "local_only": truth,
		"notification_priority": oneOf("PRIORITY_UNSPECIFIED", "PRIORITY_MIN", "PRIORITY_LOW",
			"PRIORITY_DEFAULT", "PRIORITY_HIGH", "PRIORITY_MAX"),
		"default_sound": truth, "default_vibrate_timings": truth, "default_light_settings": truth,
		"vibrate_timings":    list{duration},
		"visibility":         oneOf("VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"),
		"notification_count": count, "light_settings": lightSettings, "image": image,
		"bypass_proxy_notification": truth,
		"proxy":                     oneOf("PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"),
	}

	lightSettings = needs{fields{
		"color":             fields{"red": part, "green": part, "blue": part, "alpha": part},
		"light_on_duration": duration, "light_off_duration": duration,
	}}

	webpush = fields{
		"headers": webpushHeaders, "data": data, "notification": anyObject,
		"fcm_options": fields{"link": link, "analytics_label": label},
	}

	apns = fields{
		"headers": apnsHeaders, "payload": apnsPayload, "live_activity_token": text,
		"fcm_options": fields{"analytics_label": label, "image": image},
	}
)
