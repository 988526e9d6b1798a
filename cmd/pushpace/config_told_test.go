package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
)

// conceal puts a secret of its own into every field that may hold one, below a value
// whose maps and lists have an entry each, and returns them all.
func conceal(v reflect.Value, mark string, secrets *[]string) {
	secret := func(format string) string {
		s := fmt.Sprintf("hunter2-%s-%d", mark, len(*secrets))
		*secrets = append(*secrets, s)
		return fmt.Sprintf(format, s)
	}
	switch v.Interface().(type) {
	case config.Secret:
		v.SetString(secret("%s"))
		return
	case config.WebhookURL:
		v.SetString(secret("https://hooks.example/%s"))
		return
	case config.Hash:
		var h config.Hash
		copy(h[:], secret("%s"))
		text := fmt.Sprintf("%x", h[:])
		*secrets = append(*secrets, text)
		v.Set(reflect.ValueOf(h))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		conceal(v.Elem(), mark, secrets)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				conceal(v.Field(i), mark, secrets)
			}
		}
	case reflect.Map:
		entry := reflect.New(v.Type().Elem()).Elem()
		conceal(entry, mark, secrets)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("name").Convert(v.Type().Key()), entry)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		conceal(v.Index(0), mark, secrets)
	}
}

// What the console is told of the configuration has no secret, whichever field one is
// put into, neither of what is in force nor of what waits for a restart.
func TestTheConfigurationIsToldWithoutSecrets(t *testing.T) {
	t.Parallel()
	var secrets []string
	started, loaded := new(config.Config), new(config.Config)
	conceal(reflect.ValueOf(started).Elem(), "old", &secrets)
	conceal(reflect.ValueOf(loaded).Elem(), "new", &secrets)
	c := &configured{file: "config.yaml", started: started, roles: roles{worker: true}}
	for _, waiting := range [][]config.Change{config.Changes(started, loaded), config.Changes(new(config.Config), loaded), config.Changes(loaded, new(config.Config))} {
		c.last.Store(&reloaded{refused: errors.New("is missing"), at: time.Unix(0, 0), config: loaded, waiting: waiting})
		told, err := json.Marshal(c.tell())
		if err != nil || len(waiting) < 3 {
			t.Fatal(waiting, err)
		}
		for _, s := range secrets {
			if strings.Contains(string(told), s) {
				t.Errorf("%s is told: %s", s, told)
			}
		}
	}
	if len(secrets) < 2*8 { // of two Redis, two webhooks with a URL and a secret, a token's hash
		t.Errorf("secrets in %q alone", secrets)
	}
	settings := map[string]string{}
	for _, s := range c.tell().Settings {
		settings[s.Key] = s.Value
		if (s.App == "name") != strings.HasPrefix(s.Key, "apps.name.") {
			t.Errorf("%+v", s)
		}
	}
	for key, want := range map[string]string{"redis.password": "true", "apps.name.dead_tokens_webhook": "true", "limits.max_booked": "0"} {
		if settings[key] != want {
			t.Errorf("%s is %q", key, settings[key])
		}
	}
}
