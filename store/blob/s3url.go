package blob

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// IsS3 reports whether a place is the URL of an S3-compatible store:
//
//	s3://bucket/prefix?endpoint=https://host:port&region=name&credentials=/path&profile=name&timeout=30s
//
// All blobs have names below prefix, which may be empty. endpoint is that of Amazon in the region by default, region is
// us-east-1. credentials is a file in the format of ~/.aws/credentials, of which the profile is used; without it the
// environment variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN hold. timeout is the time after
// which a connection without progress fails.
func IsS3(place string) bool { return strings.HasPrefix(place, "s3://") }

// defaultTimeout is the time after which a connection without progress fails.
const defaultTimeout = 30 * time.Second

// s3URL is a parsed place.
type s3URL struct {
	bucket, prefix       string // prefix is empty or ends with a slash
	host                 string
	secure               bool
	region               string
	credentials, profile string
	timeout              time.Duration
}

// Check reports an error if text is not a place: a malformed S3 URL.
func Check(text string) error {
	if !IsS3(text) {
		return nil
	}
	_, err := parseS3(text)
	return err
}

// parseS3 parses a place. The error names what is wrong.
func parseS3(text string) (p s3URL, err error) {
	bad := func(why string) (s3URL, error) {
		return s3URL{}, fmt.Errorf("place %q: %s; a bucket is s3://BUCKET/PREFIX?endpoint=https://HOST&region=NAME", text,
			why)
	}
	u, err := url.Parse(text)
	if err != nil {
		return bad(err.Error())
	}
	if u.Host == "" || u.User != nil || u.Fragment != "" || u.Opaque != "" {
		return bad("it has no bucket, or a part that is not known")
	}
	p = s3URL{bucket: u.Host, secure: true, region: "us-east-1", timeout: defaultTimeout}
	if path := strings.Trim(u.Path, "/"); path != "" {
		if slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." || s == ".." }) {
			return bad("malformed prefix")
		}
		p.prefix = path + "/"
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad(err.Error())
	}
	endpoint := ""
	for name, list := range values {
		value := list[0]
		if len(list) > 1 || value == "" {
			return bad(name + " needs one value")
		}
		switch name {
		case "endpoint":
			endpoint = value
		case "region":
			p.region = value
		case "credentials":
			p.credentials = value
		case "profile":
			p.profile = value
		case "timeout":
			if p.timeout, err = time.ParseDuration(value); err != nil || p.timeout <= 0 {
				return bad("timeout is a time such as 30s")
			}
		default:
			return bad("unknown parameter " + name)
		}
	}
	if endpoint == "" {
		endpoint = "https://s3." + p.region + ".amazonaws.com"
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || strings.Trim(at.Path, "/") != "" {
		return bad("endpoint is a URL such as https://s3.example.net:9000")
	}
	p.host, p.secure = at.Host, at.Scheme == "https"
	return p, nil
}
