package api

import (
	_ "embed"
	"net/http"
)

// document describes the API, in OpenAPI 3.1.
//
//go:embed openapi.json
var document []byte

// describe answers the document.
func (a *API) describe(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, "application/json", document)
}
