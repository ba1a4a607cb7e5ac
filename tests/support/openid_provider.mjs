// An identity provider on loopback (npm oidc-provider), for tests. Reads CONTROL (JSON) at every request, so that a test
// can change what the provider knows and make it answer wrongly:
//   accounts: {login: claims}   tamper: null or the name of a wrong ID token (below)
// Arguments: CONTROL PORT CLIENT_SECRET REDIRECT_URI. Prints its issuer when it answers. Ends when its input is closed.
import { readFileSync } from "node:fs";
import http from "node:http";
import Provider from "oidc-provider";
import * as jose from "jose";

const [control, port, clientSecret, redirectUri] = process.argv.slice(2);
const read = () => JSON.parse(readFileSync(control, "utf8"));

async function key(kid) {
  const { privateKey } = await jose.generateKeyPair("RS256", { extractable: true });
  return { ...(await jose.exportJWK(privateKey)), kid, use: "sig", alg: "RS256" };
}

const kid = `key-${process.pid}`;
const own = await key(kid);
const foreign = await key(kid);
const server = http.createServer();
await new Promise((done) => server.listen(Number(port), "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [{ client_id: "disco", client_secret: clientSecret, redirect_uris: [redirectUri] }],
  jwks: { keys: [own] },
  claims: { openid: ["sub"], profile: ["name", "preferred_username"], email: ["email", "email_verified"], groups: ["groups"] },
  scopes: ["openid", "profile", "email", "groups"],
  pkce: { methods: ["S256"], required: () => true },
  cookies: { keys: ["a key of a test"] },
  conformIdTokenClaims: process.env.IN_TOKEN !== "1", // otherwise claims stand in the ID token itself
  findAccount: (ctx, sub) => {
    const claims = read().accounts[sub];
    return claims && { accountId: sub, claims: () => ({ sub, ...claims }) };
  },
});

// the ID token of the real provider, changed and signed again
const wrong = {
  "other key": (claims, header) => signed(claims, header, foreign),
  "unknown key": (claims, header) => signed(claims, { ...header, kid: "nobody knows" }, foreign),
  nonce: (claims, header) => signed({ ...claims, nonce: "of another attempt" }, header, own),
  "no nonce": ({ nonce, ...claims }, header) => signed(claims, header, own),
  audience: (claims, header) => signed({ ...claims, aud: "another", azp: "disco" }, header, own),
  audiences: (claims, header) => signed({ ...claims, aud: ["another", "disco"], azp: "another" }, header, own),
  issuer: (claims, header) => signed({ ...claims, iss: "https://id.example.com" }, header, own),
  expired: (claims, header) => signed({ ...claims, exp: claims.iat - 300, iat: claims.iat - 600 }, header, own),
  future: (claims, header) => signed({ ...claims, iat: claims.iat + 3600, exp: claims.exp + 3600 }, header, own),
  "no expiry": ({ exp, ...claims }, header) => signed(claims, header, own),
  none: (claims) => new jose.UnsecuredJWT(claims).encode(),
  "shared secret": (claims) =>
    new jose.SignJWT(claims).setProtectedHeader({ alg: "HS256", kid }).sign(new TextEncoder().encode(clientSecret.padEnd(32, "x"))),
  altered: (claims, header, token) => {
    const [head, , signature] = token.split(".");
    return [head, Buffer.from(JSON.stringify({ ...claims, sub: "eve" })).toString("base64url"), signature].join(".");
  },
  "not a token": () => "not.a.token",
};

async function signed(claims, header, jwk) {
  return new jose.SignJWT(claims).setProtectedHeader(header).sign(await jose.importJWK(jwk, "RS256"));
}

provider.use(async (ctx, next) => {
  await next();
  const { tamper } = read();
  if (!tamper || ctx.path !== "/token" || !ctx.body?.id_token) return;
  const token = ctx.body.id_token;
  ctx.body = { ...ctx.body, id_token: await wrong[tamper](jose.decodeJwt(token), jose.decodeProtectedHeader(token), token) };
});

server.on("request", provider.callback());
process.stdin.on("end", () => process.exit(0)).resume();
console.log(issuer);
