package apns

import "testing"

func TestTopicIsBareBundleID(t *testing.T) {
	t.Parallel()
	const voip = "ends in .voip, which pushpace adds by the push type: want com.example.shop"
	const bundle = "must be the app's bundle ID, such as com.example.shop"
	for topic, want := range map[string]string{
		"com.example.shop": "", "com.example.voipshop": "", "com.example.shop-2_x": "", "com.example.voip.client": "", "shop": "", "ABCDEFGHIJ.app": "",
		"com.example.shop.voip": voip, "com.example.shop.VoIP": voip,
		"com.example.shop.pushkit.fileprovider":   "ends in .pushkit.fileprovider, which pushpace adds by the push type: want com.example.shop",
		"com.example.shop.push-type.liveactivity": "ends in .push-type.liveactivity, which pushpace adds by the push type: want com.example.shop",
		"com.example.shop.voip-ptt":               "ends in .voip-ptt, which pushpace adds by the push type: want com.example.shop",
		"com.example.shop.voip.voip":              "ends in .voip.voip, which pushpace adds by the push type: want com.example.shop",
		"TEAM456789.com.example.shop":             "begins with a team's ID, which is no part of a topic: want com.example.shop",
		"team456789.com.example.shop":             "begins with a team's ID, which is no part of a topic: want com.example.shop",
		"ABCDE12345.com.example.shop.voip":        voip,
		"com.example.shop ":                       "ends in a space: remove it", "com.example.shop\n": "ends in white space (U+000A): remove it", "\u00a0com.example.shop": "begins with white space (U+00A0): remove it",
		"": bundle, "com example": bundle + ": letters, digits, hyphens and dots", ".voip": bundle + ": letters, digits, hyphens and dots", "com..shop": bundle + ": letters, digits, hyphens and dots",
		"com.example.*": bundle + ": letters, digits, hyphens and dots", "com.exämple": bundle + ": letters, digits, hyphens and dots",
	} {
		if got := (Config{Topic: topic, TeamID: "TEAM456789"}).topicFault(); got != want {
			t.Errorf("%q: %q, want %q", topic, got, want)
		}
	}
}
