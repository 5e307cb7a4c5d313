import { createPublicKey, randomBytes } from 'node:crypto';
import type { ServiceAccount } from '../files/ensure-files.ts';
import { createJsonResponse, type ProviderResponse } from '../response/provider-response.ts';
import { setBounded } from '../set-bounded.ts';
import { parseJwt } from '../transport/jwt.ts';

const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const GOOGLE_TOKEN_URI = 'https://oauth2.googleapis.com/token';
const SCOPES = [
  'https://www.googleapis.com/auth/firebase.messaging',
  'https://www.googleapis.com/auth/cloud-platform',
];
const HOUR_SECONDS = 3_600;
/** Maximum clock difference that is tolerated. */
const LEEWAY_SECONDS = 60;
const MAX_ACCESS_TOKENS = 10_000;

/** Google's OAuth server for service accounts (RFC 7523; Google, "Using OAuth 2.0 for server to server applications"). */
export type OAuthServer = ReturnType<typeof createOAuthServer>;

/** Creates the OAuth server for one service account. */
export function createOAuthServer(account: ServiceAccount) {
  const key = createPublicKey(account.private_key);
  const expiryByAuthorization = new Map<string, number>();

  function issueToken(): ProviderResponse {
    const token = `ya29.${randomBytes(24).toString('base64url')}`;
    const expiresAt = Date.now() + HOUR_SECONDS * 1_000;
    setBounded(expiryByAuthorization, `Bearer ${token}`, expiresAt, MAX_ACCESS_TOKENS);
    return createJsonResponse(200, {
      access_token: token,
      expires_in: HOUR_SECONDS,
      token_type: 'Bearer',
    });
  }

  return {
    /** Handles `POST /token`. @param form the form-encoded body */
    grantToken: (form: string): ProviderResponse => {
      const fields = new URLSearchParams(form);
      if (fields.get('grant_type') !== GRANT_TYPE) {
        return createOAuthError(400, 'unsupported_grant_type', 'Invalid grant_type');
      }
      const jwt = parseJwt(fields.get('assertion') ?? '');
      if (jwt === undefined || !jwt.isSignedBy(key, 'RS256')) {
        return createOAuthError(400, 'invalid_grant', 'Invalid JWT Signature.');
      }
      const claimsError = checkClaims(jwt.claims, account);
      return claimsError === undefined ? issueToken() : claimsError;
    },
    /** Checks whether an Authorization header contains a valid access token. */
    isValidAccessToken: (authorization: string | undefined): boolean =>
      (expiryByAuthorization.get(authorization ?? '') ?? 0) > Date.now(),
    /** Expires all access tokens issued so far. */
    expireTokens: (): void => expiryByAuthorization.clear(),
  };
}

/** Creates the response for a disabled or deleted service account. */
export function createAccountNotFoundResponse(): ProviderResponse {
  return createOAuthError(400, 'invalid_grant', 'Invalid grant: account not found');
}

function checkClaims(
  claims: Record<string, unknown>,
  account: ServiceAccount,
): ProviderResponse | undefined {
  const { iss, aud, iat, exp, scope } = claims;
  const now = Date.now() / 1_000;
  if (iss !== account.client_email) {
    return createOAuthError(400, 'invalid_grant', 'Invalid grant: account not found');
  }
  if (aud !== account.token_uri && aud !== GOOGLE_TOKEN_URI) {
    return createOAuthError(400, 'invalid_grant', 'Invalid JWT: Failed audience check.');
  }
  const hasValidLifetime =
    typeof iat === 'number' &&
    typeof exp === 'number' &&
    iat <= now + LEEWAY_SECONDS &&
    exp > now &&
    exp - iat <= HOUR_SECONDS;
  if (!hasValidLifetime) {
    return createOAuthError(
      400,
      'invalid_grant',
      'Invalid JWT: Token must be a short-lived token.',
    );
  }
  const scopes = String(scope ?? '').split(' ');
  if (!SCOPES.some((one) => scopes.includes(one))) {
    return createOAuthError(
      400,
      'invalid_scope',
      'Invalid OAuth scope or ID token audience provided.',
    );
  }
  return undefined;
}

function createOAuthError(status: number, error: string, description: string): ProviderResponse {
  return createJsonResponse(status, { error, error_description: description });
}
