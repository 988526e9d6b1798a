package fcm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/providers/fcm/internal/wire"
)

func TestServiceAccountTakesByteOrderMarkAndCRLF(t *testing.T) {
	t.Parallel()
	account, err := json.MarshalIndent(map[string]string{
		"type": "service_account", "project_id": "shop-1", "client_email": "x@example.com",
		"private_key": string(testKey()), "token_uri": "https://oauth2.googleapis.com/token",
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "account.json")
	read := func(text string) (string, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, project, err := wire.ReadCredentials(file)
		return project, err
	}
	if project, err := read("\ufeff" + strings.ReplaceAll(string(account), "\n", "\r\n")); err != nil || project != "shop-1" {
		t.Errorf("%q, %v", project, err)
	}
	if _, err := read("\xff\xfe{\x00}\x00"); err == nil || !strings.Contains(err.Error(), "credentials_file: "+file+": is in UTF-16: save it as UTF-8") {
		t.Errorf("UTF-16: %v", err)
	}
}
