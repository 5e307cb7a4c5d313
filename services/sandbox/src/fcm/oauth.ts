import { createPublicKey, randomBytes } from 'node:crypto';
import { jsonVerdict, type Verdict } from '../answer/verdict.ts';
import type { ServiceAccount } from '../files/ensure-files.ts';
import { readJwt } from '../wire/jwt.ts';

const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const GOOGLES_TOKEN_URI = 'https://oauth2.googleapis.com/token';
const SCOPES = [
  'https://www.googleapis.com/auth/firebase.messaging',
  'https://www.googleapis.com/auth/cloud-platform',
];
const HOUR_SECONDS = 3_600;
/** Clocks differ a little. */
const LEEWAY_SECONDS = 60;
const MOST_TOKENS = 10_000;

/** Google's OAuth for service accounts (RFC 7523; Google, "Using OAuth 2.0 for server to server applications"). */
export interface OAuth {
  /** Answers `POST /token`, whose body is a form. */
  grant(form: string): Verdict;
  /** Whether an Authorization header carries an access token that is alive. */
  isAlive(authorization: string | undefined): boolean;
  /** No access token of before is alive any more. */
  expire(): void;
}

/** Makes it for one service account. */
export function createOAuth(account: ServiceAccount): OAuth {
  const key = createPublicKey(account.private_key);
  const alive = new Map<string, number>();

  function issue(): Verdict {
    const token = `ya29.${randomBytes(24).toString('base64url')}`;
    if (alive.size === MOST_TOKENS) alive.delete(alive.keys().next().value ?? '');
    alive.set(`Bearer ${token}`, Date.now() + HOUR_SECONDS * 1_000);
    return jsonVerdict(200, {
      access_token: token,
      expires_in: HOUR_SECONDS,
      token_type: 'Bearer',
    });
  }

  return {
    grant: (form) => {
      const fields = new URLSearchParams(form);
      if (fields.get('grant_type') !== GRANT_TYPE) {
        return oauthError(400, 'unsupported_grant_type', 'Invalid grant_type');
      }
      const jwt = readJwt(fields.get('assertion') ?? '');
      if (jwt === undefined || !jwt.isSignedBy(key, 'RS256')) {
        return oauthError(400, 'invalid_grant', 'Invalid JWT Signature.');
      }
      const fault = claimFault(jwt.claims, account);
      return fault === undefined ? issue() : fault;
    },
    isAlive: (authorization) => (alive.get(authorization ?? '') ?? 0) > Date.now(),
    expire: () => alive.clear(),
  };
}

/** The refusal of a service account that was disabled or deleted. */
export function refusedAccount(): Verdict {
  return oauthError(400, 'invalid_grant', 'Invalid grant: account not found');
}

function claimFault(claims: Record<string, unknown>, account: ServiceAccount): Verdict | undefined {
  const { iss, aud, iat, exp, scope } = claims;
  const now = Date.now() / 1_000;
  if (iss !== account.client_email) {
    return oauthError(400, 'invalid_grant', 'Invalid grant: account not found');
  }
  if (aud !== account.token_uri && aud !== GOOGLES_TOKEN_URI) {
    return oauthError(400, 'invalid_grant', 'Invalid JWT: Failed audience check.');
  }
  const isTimely =
    typeof iat === 'number' &&
    typeof exp === 'number' &&
    iat <= now + LEEWAY_SECONDS &&
    exp > now &&
    exp - iat <= HOUR_SECONDS;
  if (!isTimely) {
    return oauthError(400, 'invalid_grant', 'Invalid JWT: Token must be a short-lived token.');
  }
  const scopes = String(scope ?? '').split(' ');
  if (!SCOPES.some((one) => scopes.includes(one))) {
    return oauthError(400, 'invalid_scope', 'Invalid OAuth scope or ID token audience provided.');
  }
  return undefined;
}

function oauthError(status: number, error: string, description: string): Verdict {
  return jsonVerdict(status, { error, error_description: description });
}
