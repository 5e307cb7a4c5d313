import { operatorName } from '@carillon/admin/operator-name';
import type { OperatorAccounts, OperatorRole } from '@carillon/store/console-documents';
import * as oidc from 'openid-client';
import { ROLES } from '../http/route.ts';

const TIMEOUT_SECONDS = 10;
const MAX_ACCOUNTS = 200;
const OBJECT_ID = /^[0-9a-f]{24}$/;

/** Settings of an OpenID provider. */
export interface OpenIdSettings {
  issuer: string;
  clientId: string;
  clientSecret: string | undefined;
  scopes: string;
  roleClaim: string;
  accountsClaim: string | undefined;
  /** URL of the callback at the console. */
  redirectUri: string;
}

/** Secrets of one login, kept by the browser until the callback. */
export interface PendingLogin {
  state: string;
  nonce: string;
  verifier: string;
}

/** Operator that the provider has authenticated, with the role and accounts of its claims. */
export interface Identity {
  /** `issuer subject` */
  openId: string;
  /** Names for a new operator, the first that is free; none if the provider gives none that can be shown. */
  names: string[];
  /** Undefined without a role claim: no access. */
  role: OperatorRole | undefined;
  accounts: OperatorAccounts;
}

type Claims = Record<string, unknown>;

/** Logs in at an OpenID provider: authorization code flow with PKCE, state and nonce (OpenID Connect Core 1.0, 3.1). */
export type OpenId = ReturnType<typeof createOpenId>;

/** Creates the client of a provider. Its metadata is read at the first login, so that the console starts without it. */
export function createOpenId(settings: OpenIdSettings) {
  let discovered: Promise<oidc.Configuration> | undefined;

  async function discover(): Promise<oidc.Configuration> {
    discovered ??= readMetadata(settings);
    try {
      return await discovered;
    } catch (error) {
      discovered = undefined;
      throw error;
    }
  }

  return {
    /** Returns the URL of the provider's login page, and the secrets that the callback needs. */
    async begin(): Promise<{ url: string; pending: PendingLogin }> {
      const config = await discover();
      const pending = {
        state: oidc.randomState(),
        nonce: oidc.randomNonce(),
        verifier: oidc.randomPKCECodeVerifier(),
      };
      const url = oidc.buildAuthorizationUrl(config, {
        redirect_uri: settings.redirectUri,
        scope: settings.scopes,
        state: pending.state,
        nonce: pending.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(pending.verifier),
        code_challenge_method: 'S256',
      });
      return { url: url.href, pending };
    },
    /** Exchanges the code of a callback for the identity. @throws if the provider or a check refuses it */
    async finish(search: string, pending: PendingLogin): Promise<Identity> {
      const config = await discover();
      const tokens = await oidc.authorizationCodeGrant(
        config,
        new URL(`${settings.redirectUri}${search}`),
        {
          pkceCodeVerifier: pending.verifier,
          expectedState: pending.state,
          expectedNonce: pending.nonce,
          idTokenExpected: true,
        },
      );
      const claims = tokens.claims();
      if (claims === undefined) throw new Error('the provider sent no ID token');
      return toIdentity(
        settings,
        await completeClaims(config, settings, tokens.access_token, claims),
      );
    },
  };
}

/** Providers of http are for tests and private networks: the operator has configured the URL. */
function readMetadata({
  issuer,
  clientId,
  clientSecret,
}: OpenIdSettings): Promise<oidc.Configuration> {
  const authentication =
    clientSecret === undefined ? oidc.None() : oidc.ClientSecretPost(clientSecret);
  return oidc.discovery(new URL(issuer), clientId, undefined, authentication, {
    timeout: TIMEOUT_SECONDS,
    execute: [
      // The signature of the ID token is checked too: its claims give a role, and a proxy may terminate the provider's TLS.
      oidc.enableNonRepudiationChecks,
      ...(issuer.startsWith('http:') ? [oidc.allowInsecureRequests] : []),
    ],
  });
}

/** Adds the claims of the userinfo endpoint where the ID token lacks the role: providers differ in where they put it. */
async function completeClaims(
  config: oidc.Configuration,
  { roleClaim }: OpenIdSettings,
  accessToken: string,
  claims: oidc.IDToken,
): Promise<Claims & Pick<oidc.IDToken, 'iss' | 'sub'>> {
  const { userinfo_endpoint: endpoint } = config.serverMetadata();
  if (claims[roleClaim] !== undefined || endpoint === undefined) return claims;
  const { sub: _sub, ...more } = await oidc.fetchUserInfo(config, accessToken, claims.sub);
  return { ...more, ...claims };
}

function toIdentity(
  { roleClaim, accountsClaim }: OpenIdSettings,
  claims: Claims & Pick<oidc.IDToken, 'iss' | 'sub'>,
): Identity {
  const claimed = [claims.preferred_username, claims.email, claims.name, claims.sub];
  const [name] = toNames(claimed);
  return {
    openId: `${claims.iss} ${claims.sub}`,
    // A local operator may have the name.
    names: toNames([name, `${name} (${claims.sub})`]),
    role: toStrongestRole(claims[roleClaim]),
    accounts: accountsClaim === undefined ? 'all' : toAccountIds(claims[accountsClaim]),
  };
}

/** Keeps the names that can be shown to other operators. */
function toNames(claimed: readonly unknown[]): string[] {
  return claimed.flatMap((claim) => {
    const { data } = operatorName.safeParse(claim);
    return data === undefined || data === '' ? [] : [data];
  });
}

function toStrongestRole(claim: unknown): OperatorRole | undefined {
  const given: readonly unknown[] = Array.isArray(claim) ? claim : [claim];
  return ROLES.findLast((role) => given.includes(role));
}

function toAccountIds(claim: unknown): string[] {
  const given: readonly unknown[] = Array.isArray(claim) ? claim : [claim];
  const isId = (id: unknown): id is string => typeof id === 'string' && OBJECT_ID.test(id);
  return given.filter(isId).slice(0, MAX_ACCOUNTS);
}
