package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// These openings of a comment put its meaning into a question word, and the reader has to reorder the sentence.
var (
	isWhat   = regexp.MustCompile(`^\w+ (?:is|are|was) (?:what|who|whom|whose|where|how|whether|which|when)\b`)
	saysWhat = regexp.MustCompile(
		`^\w+ (?:says|say|tells|tell|knows|asks) (?:what|who|whom|whose|where|how|whether|which|when|if)\b`)
	givesThat = regexp.MustCompile(`^\w+ (?:gives|takes|tells|lets|makes of) `)
)

// wording measures comments, errors and documentation.
func wording(m *module) []figure {
	var is, says, gives, undocumented, errs []string
	for i := range m.code {
		s := &m.code[i]
		for _, group := range s.ast.Comments {
			first := strings.TrimSpace(group.Text())
			place := m.at(s, group.Pos()) + " " + cut(first)
			switch {
			case isWhat.MatchString(first):
				is = append(is, place)
			case saysWhat.MatchString(first):
				says = append(says, place)
			case givesThat.MatchString(first):
				gives = append(gives, place)
			}
		}
		undocumented = append(undocumented, exported(m, s)...)
		errs = append(errs, errorTexts(m, s)...)
	}
	return []figure{
		{name: "comment-is-what", meaning: `comments that begin "X is what"`, aim: "0", value: len(is), places: is},
		{name: "comment-says-whether", meaning: `comments that begin "X says whether"`, aim: "0", value: len(says),
			places: says},
		{name: "comment-gives", meaning: `comments that begin "X gives", "takes", "tells", "lets"`, aim: "0",
			value: len(gives), places: gives},
		{name: "undocumented", meaning: "exported names without documentation", aim: "0", value: len(undocumented),
			places: undocumented},
		{name: "error-texts", meaning: "error texts of over 100 characters, or that begin with an article", aim: "0",
			value: len(errs), places: errs},
	}
}

func cut(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return text
}

// exported lists the exported names of a file without a comment. A comment of a group counts for each name in it.
// Methods of well-known interfaces need no comment.
func exported(m *module, s *source) (places []string) {
	if s.ast.Name.Name == "main" {
		return nil
	}
	for _, d := range s.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && !wellKnown[d.Name.Name] &&
				(d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type))) {
				places = append(places, m.at(s, d.Pos())+" "+d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if name := undocumentedSpec(d, spec); name != "" {
					places = append(places, m.at(s, spec.Pos())+" "+name)
				}
			}
		}
	}
	return places
}

var wellKnown = map[string]bool{
	"Error": true, "String": true, "Unwrap": true, "Is": true, "Read": true, "Write": true, "Close": true, "Len": true,
	"Less": true, "Swap": true, "ServeHTTP": true, "MarshalJSON": true, "UnmarshalJSON": true, "MarshalText": true,
	"UnmarshalText": true, "LocalAddr": true, "RemoteAddr": true, "SetDeadline": true, "SetReadDeadline": true,
	"SetWriteDeadline": true, "Network": true, "Name": true,
}

func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
			return spec.Name.Name
		}
	case *ast.ValueSpec:
		if spec.Names[0].IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
			return spec.Names[0].Name
		}
	}
	return ""
}

var article = regexp.MustCompile(`^(?:a|an|the|A|An|The) `)

// errorTexts lists the texts of errors.New and fmt.Errorf that are too long or begin with an article.
func errorTexts(m *module, s *source) (places []string) {
	ast.Inspect(s.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || f.Sel.Name != "New" && f.Sel.Name != "Errorf" {
			return true
		}
		if pkg, ok := f.X.(*ast.Ident); !ok || pkg.Name != "errors" && pkg.Name != "fmt" {
			return true
		}
		text, ok := literal(call.Args[0])
		if ok && (len(text) > maxErrorText || article.MatchString(text)) {
			places = append(places, m.at(s, call.Pos())+" "+text)
		}
		return true
	})
	return places
}

// literal returns the value of a string literal, or of several joined by "+".
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, _ := literal(e.X)
		right, _ := literal(e.Y)
		return left + right, left != "" || right != ""
	}
	return "", false
}
