import { SettingsError } from '@carillon/core/settings-error';
import type { Reports } from '@carillon/reports/reports';
import type { ServiceContext } from '@carillon/runtime/service';
import type { Store } from '@carillon/store/store';
import type { WebhookStore } from '@carillon/webhooks/webhook-store';
import { createAccountOf } from './account-of.ts';
import { accountRoutes } from './apps/account-routes.ts';
import { appRoutes } from './apps/app-routes.ts';
import { credentialRoutes } from './apps/credential-routes.ts';
import { keyRoutes } from './apps/key-routes.ts';
import { webhookRoutes } from './apps/webhook-routes.ts';
import { deviceRoutes } from './devices/routes.ts';
import type { ConsoleEngine } from './engine.ts';
import type { Environment } from './environment.ts';
import { failureRoutes } from './failures/routes.ts';
import { type ConsoleAddress, createConsoleAddress } from './http/address.ts';
import type { ApiOf } from './http/api-of.ts';
import { createAudited } from './http/audited.ts';
import { createBoardPages } from './http/board-pages.ts';
import { createEventStreams } from './http/event-stream.ts';
import { createPages } from './http/pages.ts';
import { createReferenceFile } from './http/reference-file.ts';
import type { ConsoleRoute } from './http/route.ts';
import { createApiRouter } from './http/routing.ts';
import { createRunbooks } from './http/runbooks.ts';
import { CONTENT_SECURITY_POLICY, serveConsole } from './http/server.ts';
import { createSessionReader } from './http/session-reader.ts';
import { createTokenReader } from './http/token-reader.ts';
import { createLiveFigures } from './live/live-figures.ts';
import { liveRoutes } from './live/routes.ts';
import { auditRoutes } from './login/audit-routes.ts';
import { createBackOff } from './login/back-off.ts';
import { createBeginSession } from './login/begin-session.ts';
import { createKnownBrowsers } from './login/known-browsers.ts';
import { createOpenId, type OpenId } from './login/open-id.ts';
import { openIdRoutes } from './login/open-id-routes.ts';
import { operatorRoutes } from './login/operator-routes.ts';
import { createPasswords } from './login/passwords.ts';
import { loginRoutes } from './login/routes.ts';
import { setUpRoutes } from './login/set-up.ts';
import { createTextSigner } from './login/signed-text.ts';
import { tokenRoutes } from './login/token-routes.ts';
import { pushRoutes } from './pushes/routes.ts';
import { boardRoutes } from './queues/board-routes.ts';
import { BOARD_FILES, createBoard } from './queues/bull-board.ts';
import { queueRoutes } from './queues/routes.ts';

/** Parts that the console runs on. */
interface ConsoleParts {
  store: Store & Reports & WebhookStore;
  engine: ConsoleEngine;
  /** Folder of the built pages. */
  pagesFolder: string;
  /** Folder of the alerts' runbooks. */
  runbooksFolder: string;
  /** Version of the product. */
  version: string;
  /** Called after every response of the API. */
  onResponse?: () => void;
}

/**
 * Starts the console.
 *
 * @returns the port, and a function that stops it
 * @throws SettingsError for settings that contradict each other
 */
export async function createConsole(
  { log, metrics }: Pick<ServiceContext, 'log' | 'metrics'>,
  env: Environment,
  { store, engine, pagesFolder, runbooksFolder, version, onResponse }: ConsoleParts,
): Promise<{ port: number; stop: () => Promise<void> }> {
  const address = createConsoleAddress(env.CONSOLE_URL);
  const openId = createOpenIdOfSettings(env, address);
  const sessions = createSessionReader(store, address);
  const knownBrowsers = createKnownBrowsers(env.API_KEY_PEPPER, address);
  const audited = createAudited(store, log);
  const eventStreams = createEventStreams();
  const shared = { store, log, sessions, knownBrowsers, audited };
  const installation = {
    environment: env.CONSOLE_ENVIRONMENT,
    apiUrl: env.PUBLIC_API_URL?.replace(/\/+$/, ''),
  };
  const beginSession = createBeginSession({ ...shared, installation });
  const login = {
    ...{ ...shared, beginSession, passwords: createPasswords(), backOff: createBackOff() },
    installation,
    openIdLabel: openId && env.OIDC_LABEL,
  };
  const signer = createTextSigner(env.API_KEY_PEPPER, 'openid');
  const openRoutes = [
    ...loginRoutes(login),
    ...setUpRoutes(login),
    ...(openId ? openIdRoutes({ ...shared, beginSession, openId, address, signer }) : []),
  ];
  const routes = createConsoleRoutes(store, engine, env, address);
  const api = createApiRouter(openRoutes, routes, {
    ...{ log, metrics, sessions, audited, eventStreams, onResponse },
    readToken: createTokenReader(store),
  });
  const board = createBoardPages({
    ...{ folder: BOARD_FILES, describeEntry: createBoard(env.CONSOLE_ENVIRONMENT).describeEntry },
    ...{ sessions, api, contentSecurityPolicy: CONTENT_SECURITY_POLICY },
  });
  const reference = createReferenceFile(routes, version, address.url ?? '/');
  const runbooks = await createRunbooks(runbooksFolder);
  const server = await serveConsole(env.DASHBOARD_LISTEN, {
    ...{
      address,
      api,
      pages: [reference, runbooks, board, createPages(pagesFolder)],
      proxyHops: env.TRUST_PROXY,
    },
  });
  return {
    port: server.port,
    stop: () => {
      const stopped = server.stop();
      eventStreams.closeAll();
      return stopped;
    },
  };
}

/** Returns all routes that need a session, which share one check of session, role and account. */
export function createConsoleRoutes(
  store: Store & Reports & WebhookStore,
  engine: ConsoleEngine,
  env: ApiSettings & Pick<Environment, 'CONSOLE_ENVIRONMENT'>,
  address: Pick<ConsoleAddress, 'url'>,
): ConsoleRoute[] {
  return [
    ...createApiRoutes(store, engine, env, address),
    ...boardRoutes(engine.openQueues, env.CONSOLE_ENVIRONMENT),
  ];
}

/** The responses of the routes that the console's pages use, by method and path. */
export type ConsoleApi = ApiOf<
  | ReturnType<typeof loginRoutes>[number]
  | ReturnType<typeof setUpRoutes>[number]
  | ReturnType<typeof createApiRoutes>[number]
>;

type ApiSettings = Pick<
  Environment,
  'API_KEY_PEPPER' | 'CREDENTIAL_KEYS' | 'RETENTION_SECONDS' | 'WEB_PUSH_CONTACT'
>;

/** Returns the routes with a session except those of Bull Board, whose paths and responses are the library's. */
function createApiRoutes(
  store: Store & Reports & WebhookStore,
  engine: ConsoleEngine,
  env: ApiSettings,
  address: Pick<ConsoleAddress, 'url'>,
) {
  const accountOf = createAccountOf(store);
  const retentionMs = env.RETENTION_SECONDS * 1_000;
  const { API_KEY_PEPPER: pepper, CREDENTIAL_KEYS: sealingKeys } = env;
  const { queueConnection: redis } = engine;
  const figures = createLiveFigures(redis, store);
  return [
    ...operatorRoutes(store, address.url ?? ''),
    ...tokenRoutes(store),
    ...auditRoutes(store),
    ...accountRoutes(store),
    ...appRoutes(store, pepper, sealingKeys),
    ...keyRoutes(store, pepper),
    ...credentialRoutes(store, sealingKeys, engine.accept, env.WEB_PUSH_CONTACT),
    ...webhookRoutes(store, engine.producers),
    ...liveRoutes({ redis, figures, store }),
    ...pushRoutes(store, engine.producers, { accept: engine.accept, accountOf, retentionMs }),
    ...deviceRoutes(store, engine.presenceReader, engine, accountOf),
    ...failureRoutes(store, engine.producers, accountOf),
    ...queueRoutes(redis, figures),
  ];
}

function createOpenIdOfSettings(env: Environment, { url }: ConsoleAddress): OpenId | undefined {
  const { OIDC_ISSUER: issuer, OIDC_CLIENT_ID: clientId } = env;
  if (issuer === undefined) return undefined;
  if (clientId === undefined || url === undefined) {
    throw new SettingsError(
      'Wrong environment:\nOIDC_ISSUER: needs CONSOLE_URL and OIDC_CLIENT_ID',
    );
  }
  return createOpenId({
    ...{ issuer, clientId, clientSecret: env.OIDC_CLIENT_SECRET, scopes: env.OIDC_SCOPES },
    roleClaim: env.OIDC_ROLE_CLAIM,
    accountsClaim: env.OIDC_ACCOUNTS_CLAIM,
    redirectUri: `${url}/api/oidc/callback`,
  });
}
