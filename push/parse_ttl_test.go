package push

import "testing"

func TestZeroTTLIsRefused(t *testing.T) {
	t.Parallel()
	const rest = `"app":"a","user":"u","targets":[{"platform":"fcm","token":"t"}],"title":"t"`
	for text, refused := range map[string]bool{
		`{"ttl":"0s",` + rest + `}`: true, `{"ttl":"0h",` + rest + `}`: true, `{"ttl":"0d",` + rest + `}`: true,
		`{"ttl":"1s",` + rest + `}`: false, `{"data":{"ttl":"0s"},` + rest + `}`: false, `{"ttl":null,` + rest + `}`: false,
	} {
		_, err := Parse([]byte(text))
		if f := faultsOf(t, err); (len(f) == 1 && f[0].Field == "/ttl") != refused || len(f) > 1 {
			t.Errorf("%s: %v", text, err)
		}
	}
}
