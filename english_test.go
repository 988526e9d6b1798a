package pushpace_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Plain English has a subject, an agent and the field's words. These patterns find most sentences
// that have to be read twice. CONTRIBUTING.md has the rules.
var unclear = []*regexp.Regexp{
	// A clause in the place of a noun: "what has no room" for "a job without room".
	regexp.MustCompile(`\b([Ww]hoever|[Ww]hat|[Ww]hose|[Ww]hom|[Tt]hose|[Nn]obody|[Ss]omebody)\b`),
	regexp.MustCompile(`\b[Ww]ho \w+`),
	// "has the job come back" for "requeues the job".
	regexp.MustCompile(`\b(has|have|had|lets?) (\w+ ){1,4}(be|do|know|come|go|return|wait|see|say|stand|leave|keep)\b`),
	// "tells of" for "reports".
	regexp.MustCompile(`\b(tells?|told|(is|are) let through|in hand|comes? forward)\b`),
}

// A test's name has a unit, a condition and a result: it is no sentence.
var sentenceName = regexp.MustCompile(`^Test(What|Who|Whose|A[A-Z]|The|Those|Nobody|Of)`)

// quotes matches names and quotations, which the patterns do not judge.
var quotes = regexp.MustCompile("`[^`]*`|\"[^\"]*\"")

func isUnclear(text string) bool {
	text = quotes.ReplaceAllString(text, "")
	for _, p := range unclear {
		if p.MatchString(text) {
			return true
		}
	}
	return false
}

// Few comments, help texts and test names match the patterns. The bounds are per mille of all
// comments, and of all texts: lower them when fewer remain.
func TestPlainEnglish(t *testing.T) {
	t.Parallel()
	const mostComments, mostTexts = 6, 20
	var comments, texts, unclearComments, unclearTexts int
	for path, raw := range sources(t) {
		if strings.Contains(path, "/testdata/") || path == "english_test.go" {
			continue
		}
		mark := "//"
		if filepath.Ext(path) == ".lua" {
			mark = "--"
		}
		for line := range strings.Lines(raw) {
			comment, is := strings.CutPrefix(strings.TrimSpace(line), mark)
			if !is || strings.HasPrefix(comment, "go:") || strings.HasPrefix(comment, "nolint") {
				continue
			}
			if comments++; isUnclear(comment) {
				unclearComments++
			}
		}
		if mark == "--" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, raw, parser.SkipObjectResolution)
		must(t, err)
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && sentenceName.MatchString(f.Name.Name) {
				t.Errorf("%s: %s is a sentence; name the unit, the condition and the result", path, f.Name.Name)
			}
		}
		for _, text := range helpTexts(file) {
			for line := range strings.Lines(text) {
				if texts++; isUnclear(line) {
					unclearTexts++
				}
			}
		}
	}
	if n := 1000 * unclearComments; n > mostComments*comments {
		t.Errorf("%d of %d comment lines have to be read twice, more than %d per mille", unclearComments, comments, mostComments)
	}
	if n := 1000 * unclearTexts; n > mostTexts*texts {
		t.Errorf("%d of %d lines of help have to be read twice, more than %d per mille", unclearTexts, texts, mostTexts)
	}
}

// helpTexts returns the texts of a file's commands and flags.
func helpTexts(file *ast.File) (all []string) {
	text := func(e ast.Expr) {
		if lit, is := e.(*ast.BasicLit); is && lit.Kind == token.STRING {
			s, _ := strconv.Unquote(lit.Value)
			all = append(all, s)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, is := n.Key.(*ast.Ident); is && (key.Name == "Short" || key.Name == "Long" || key.Name == "Help") {
				text(n.Value)
			}
		case *ast.CallExpr:
			if f, is := n.Fun.(*ast.SelectorExpr); is && strings.HasSuffix(f.Sel.Name, "Var") && len(n.Args) > 3 {
				text(n.Args[len(n.Args)-1])
			}
		}
		return true
	})
	return all
}
