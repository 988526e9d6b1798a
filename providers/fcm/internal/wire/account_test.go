package wire

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// If the file is a Google file of the wrong kind, the error names the kind and the file to use
// instead. It repeats nothing from the file.
func TestErrorReportsKindOfWrongFile(t *testing.T) {
	t.Parallel()
	const secret = "canary"
	for text, want := range map[string]string{
		`{"type":"external_account","token_url":"https://` + secret + `","credential_source":{"url":"http://169.254.169.254/` + secret + `"}}`: "workload identity federation, which is not supported",
		`{"type":"external_account","credential_source":{"executable":{"command":"` + secret + `"}}}`:                                          "workload identity federation, which is not supported",
		`{"type":"external_account_authorized_user","refresh_token":"` + secret + `"}`:                                                         "workforce identity federation, which is not supported",
		`{"type":"authorized_user","client_secret":"` + secret + `","refresh_token":"` + secret + `"}`:                                         "application default credentials), which is not supported",
		`{"type":"impersonated_service_account","source_credentials":{"refresh_token":"` + secret + `"}}`:                                      "impersonation of a service account, which is not supported",
		`{"installed":{"client_secret":"` + secret + `"}}`:                                                                                     "is an OAuth client",
		`{"web":{"client_secret":"` + secret + `"}}`:                                                                                           "is an OAuth client",
		`{"project_info":{"project_id":"p"},"client":["` + secret + `"]}`:                                                                      "google-services.json",
		`{"type":"` + secret + `"}`: "is not a service account's key",
		`{}`:                        "is not a service account's key",
		`[]`:                        "is not a JSON object",
		"-----BEGIN " + secret:      "is not a JSON object",
		"":                          "is not a JSON object",
	} {
		file := filepath.Join(t.TempDir(), "credentials.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := ReadCredentials(file)
		if err == nil || !strings.HasPrefix(err.Error(), "credentials_file: "+file) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Generate new private key") {
			t.Errorf("%s: %v, want %q", text, err, want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error repeats it: %v", text, err)
		}
	}
}
