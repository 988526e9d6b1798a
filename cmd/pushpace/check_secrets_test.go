package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

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

// Neither check nor the log of a reload shows a secret, in whichever field it is.
func TestConfigurationIsPrintedWithoutSecrets(t *testing.T) {
	t.Parallel()
	var secrets []string
	started, loaded := new(config.Config), new(config.Config)
	conceal(reflect.ValueOf(started).Elem(), "old", &secrets)
	conceal(reflect.ValueOf(loaded).Elem(), "new", &secrets)
	if len(secrets) < 2*8 { // of two Redis, two webhooks with a URL and a secret, a token's hash
		t.Errorf("secrets in %q alone", secrets)
	}
	text, err := json.Marshal(effectiveOf(loaded))
	if err != nil {
		t.Fatal(err)
	}
	printed := string(text)
	for _, want := range []string{`"password":true`, `"dead_tokens_webhook":true`} {
		if !strings.Contains(printed, want) {
			t.Errorf("%s is not in %s", want, printed)
		}
	}
	for _, changes := range [][]config.Change{config.Changes(started, loaded), config.Changes(new(config.Config), loaded), config.Changes(loaded, new(config.Config))} {
		if len(changes) < 3 {
			t.Fatal(changes)
		}
		printed += listed(changes)
	}
	for _, s := range secrets {
		if strings.Contains(printed, s) {
			t.Errorf("%s is printed: %s", s, printed)
		}
	}
}
