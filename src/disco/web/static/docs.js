// A file of its own: the page's policy allows no script inside the page.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#routes",
  deepLinking: true,
  validatorUrl: null, // no other server is asked
  requestInterceptor: (request) => {
    const token = document.cookie.split("; ").find((one) => one.startsWith("disco_csrf="));
    if (token && request.method !== "GET") request.headers["X-CSRF-Token"] = token.slice("disco_csrf=".length);
    return request;
  },
});
