package config

import (
	"strings"
	"testing"
)

const placeholderSays = "has a placeholder such as ${NAME}, which nothing replaces: write the value itself"

func TestPlaceholderIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"shell", "redis:\n  address: ${REDIS_HOST}:6379", "c.yaml:2:12: redis.address: " + placeholderSays + ", or set it by PUSHPACE_REDIS__ADDRESS"},
		{"default", "redis:\n  address: ${REDIS_HOST:-a}:6379", "set it by PUSHPACE_REDIS__ADDRESS"},
		{"not closed", "redis:\n  address: ${REDIS_HOST", "set it by PUSHPACE_REDIS__ADDRESS"},
		{"without braces", "redis:\n  address: $REDIS_HOST:6379", "set it by PUSHPACE_REDIS__ADDRESS"},
		{"in small letters", "redis:\n  address: $redis_host", "set it by PUSHPACE_REDIS__ADDRESS"},
		{"Kubernetes", "redis:\n  address: $(REDIS_HOST):6379", "set it by PUSHPACE_REDIS__ADDRESS"},
		{"Helm", `redis: {address: "{{ .Values.redis }}"}`, "set it by PUSHPACE_REDIS__ADDRESS"},
		{"Helm without quotes", "redis:\n  address: {{ .Values.redis }}", "c.yaml:2:13: not valid YAML: could not find flow map content: {{ begins a template's placeholder"},
		{"Windows", `redis: {address: "%REDIS_HOST%:6379"}`, "set it by PUSHPACE_REDIS__ADDRESS"},
		{"ERB", `redis: {address: "<%= host %>"}`, "set it by PUSHPACE_REDIS__ADDRESS"},
		{"in a list", `redis: {address: [a:1, "${B}:2"]}`, "c.yaml:1:24: redis.address[1]: " + placeholderSays + ", or set it by PUSHPACE_REDIS__ADDRESS"},
		{"Sentinels", `redis: {address: {master: "${M}", sentinels: ["${S}:1"]}}`, "redis.address.sentinels[0]: " + placeholderSays + ", or set it by PUSHPACE_REDIS__ADDRESS__SENTINELS"},
		{"number", "redis: {address: embedded, db: $DB}", "redis.db: " + placeholderSays + ", or set it by PUSHPACE_REDIS__DB"},
		{"duration", "redis: {address: embedded}\nlimits: {default: {min_gap: $GAP}}", "PUSHPACE_LIMITS__DEFAULT__MIN_GAP"},
		{"text of an app", "redis: {address: embedded}\napps: {Shop.EU: {apns: {topic: $TOPIC}}}", `apps."Shop.EU".apns.topic: ` + placeholderSays + ", or set it by PUSHPACE_APPS__SHOP_EU__APNS__TOPIC"},
		{"app's name", "redis: {address: embedded}\napps: {\"${APP}\": {simulated: true}}", "the name has a placeholder such as ${NAME}, which nothing replaces: write the name itself"},
		{"token", "redis: {address: embedded}\nhttp: {tokens: [{name: $TOKEN_NAME}]}", "http.tokens[0].name: " + placeholderSays + "\n"},
		{"secret as a whole", "redis: {address: a:1, password: \"${CANARY}\"}", "redis.password: " + placeholderSays + ", or set it by PUSHPACE_REDIS__PASSWORD, or name its file in password_file"},
		{"webhook's URL", "redis: {address: embedded}\napps: {shop: {simulated: true, outcomes: {webhook: {url: \"https://${CANARY}/x\"}}}}", "apps.shop.outcomes.webhook.url: " + placeholderSays},
	} {
		_, err := Parse("c.yaml", []byte(c.text), nil)
		if err == nil || !strings.Contains(err.Error()+"\n", c.want) || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
		}
	}
	_, err := Parse("c.yaml", []byte("redis: {address: embedded}"), []string{"PUSHPACE_REDIS__ADDRESS=${REDIS_HOST}:6379"})
	if want := "PUSHPACE_REDIS__ADDRESS: redis.address: " + placeholderSays; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func TestValueLikePlaceholderIsAccepted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"redis: {address: 'a:1', password: 'hun${ter}2'}", "redis: {address: 'a:1', password: 'a$PASSWORD'}", "redis: {address: 'a:1', password: '$2y$10$abc'}",
		"redis: {address: 'a:1', password: '%ab%cd'}", "redis: {address: 'a:1', username: 'us$er', password: 'a{{b}}'}",
		"redis: {address: embedded}\nworker: {outcomes: 1000}\napps: {shop: {simulated: true, outcomes: {webhook: {url: 'https://h/%C3%A4%20b?$filter=a', secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}}}}",
		"redis: {address: embedded}\napps: {sh$op: {simulated: true}, '50%': {simulated: true}}",
	} {
		if _, err := Parse("c.yaml", []byte(text), nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestValueWithSpaceAtEndIsRefused(t *testing.T) {
	t.Parallel()
	const base = "redis: {address: embedded}\n"
	for text, want := range map[string]string{
		base + "apps: {'shop ': {simulated: true}}":                                            `c.yaml:2:8: apps."shop ": the name ends in a space: remove it`,
		base + "apps: {\"shop\\u00a0\": {simulated: true}}":                                    "the name ends in white space (U+00A0): remove it",
		base + "limits: {categories: {' news': {rates: [1/1h]}}}":                              "the name begins with a space: remove it",
		base + "apps: {shop: {fcm: {project_id: 'shop-1 ', quota: 'q '}}}":                     "apps.shop.fcm.quota: ends in a space: remove it",
		base + "apps: {shop: {apns: {key_id: ' ABCDEFGHI'}}}":                                  "apps.shop.apns.key_id: begins with a space: remove it",
		base + "http: {tokens: [{name: 'ada '}]}":                                              "http.tokens[0].name: ends in a space: remove it",
		"redis: {address: embedded, prefix: 'shop '}":                                          "redis.prefix: ends in a space: remove it",
		base + "apps:\n  shop:\n    apns:\n      topic: |\n        com.example.shop\n":         "apps.shop.apns.topic: ends in white space (U+000A): remove it",
		base + "apps: {shop: {simulated: true}}\nhttp: {tokens: [{name: a, apps: ['shop ']}]}": "http.tokens[0].apps[0]: ends in a space: remove it",
	} {
		if _, err := Parse("c.yaml", []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
	_, err := Parse("c.yaml", []byte(base), []string{"PUSHPACE_LIMITS__TIME_ZONE=Europe/Berlin\n"})
	if err == nil || !strings.Contains(err.Error(), "PUSHPACE_LIMITS__TIME_ZONE: limits.time_zone: ends in white space (U+000A): remove it") {
		t.Error(err)
	}
}
