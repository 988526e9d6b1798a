package webhook

import (
	"errors"
	"testing"

	"github.com/pushpace/pushpace/internal/base/metadata"
)

func TestTransportRefusesMetadataService(t *testing.T) {
	t.Parallel()
	if _, err := transport(nil).DialContext(t.Context(), "tcp", "169.254.169.254:80"); !errors.Is(err, metadata.ErrAddress) {
		t.Error(err)
	}
}
