import { readFieldText } from '@carillon/core/json-text';
import { type ServiceAccount, writeServiceAccount } from '../files/ensure-files.ts';
import { applyOutcome } from '../response/apply-outcome.ts';
import type { FaultConfig } from '../response/fault-config.ts';
import { createRequestHandler, type HandleRequest } from '../response/handle-request.ts';
import { createJsonResponse, type ProviderResponse } from '../response/provider-response.ts';
import { resolveOutcome } from '../response/script-step.ts';
import type { Scripts } from '../response/scripts.ts';
import type { Exchange } from '../transport/exchange.ts';
import { isObject, parseJsonObject } from '../transport/jwt.ts';
import type { ProviderContext } from '../transport/provider-context.ts';
import { readBody } from '../transport/read-body.ts';
import { createExchange, createTlsServer, type TcpAddress } from '../transport/tls-server.ts';
import { createFcmError, findCannedFcmResponse } from './errors.ts';
import { createAccountNotFoundResponse, createOAuthServer, type OAuthServer } from './oauth.ts';
import {
  createUnauthenticatedResponse,
  readPushId,
  readToken,
  validateMessage,
} from './validate-message.ts';

const CHANNEL = 'fcm';
const SEND_PATH = /^\/v1\/projects\/([^/]+)\/messages:send$/;
/** Token of the script for `POST /token`. */
const OAUTH_SCRIPT_NAME = 'oauth';

interface FcmState {
  handleRequest: HandleRequest;
  oauth: OAuthServer;
  account: ServiceAccount;
  scripts: Scripts;
  faultConfig: Readonly<FaultConfig>;
}

/** A completely received request. */
interface FcmRequest {
  method: string | undefined;
  path: string;
  authorization: string | undefined;
  body: string;
}

/** Starts the simulated FCM and Google OAuth. */
export async function startFcm(
  { files, requestLog, scripts, faultConfigs, host }: ProviderContext,
  address: TcpAddress,
  folder: string,
): Promise<{ port: number; serviceAccount: ServiceAccount; stop(): Promise<void> }> {
  const faultConfig = faultConfigs.get(CHANNEL);
  const server = createTlsServer({
    server: files.server,
    ca: files.ca,
    allowHttp1: true,
    faultConfig,
    onConnection: () => requestLog.countConnection(CHANNEL),
  });
  const handleRequest = createRequestHandler({
    channel: CHANNEL,
    scripts,
    requestLog,
    faultConfig,
    findCannedResponse: findCannedFcmResponse,
  });
  const port = await server.listen(address);
  const urlHost = host.includes(':') ? `[${host}]` : host;
  const account = writeServiceAccount(
    folder,
    files.serviceAccountKey,
    `https://${urlHost}:${port}/token`,
  );
  const oauth = createOAuthServer(account);
  const fcm: FcmState = { handleRequest, oauth, account, scripts, faultConfig };
  faultConfigs.subscribe(CHANNEL, {
    streamLimit: server.updateStreamLimit,
    expireTokens: oauth.expireTokens,
  });
  server.http.on('request', (request, response) => {
    const exchange = createExchange(request, response, server.destroyConnection);
    const { method, headers } = request;
    const [path = ''] = (request.url ?? '').split('?');
    readBody(request, (body) => {
      const fcmRequest = {
        method,
        path,
        authorization: headers.authorization,
        body: body.toString(),
      };
      routeRequest(fcm, fcmRequest, exchange);
    });
  });
  return { port, serviceAccount: account, stop: server.stop };
}

function routeRequest(fcm: FcmState, fcmRequest: FcmRequest, exchange: Exchange): void {
  const isPost = fcmRequest.method === 'POST';
  const project = SEND_PATH.exec(fcmRequest.path)?.[1];
  if (isPost && fcmRequest.path === '/token') handleTokenRequest(fcm, fcmRequest.body, exchange);
  else if (isPost && project !== undefined) handleSendRequest(fcm, fcmRequest, project, exchange);
  else exchange.respond(404, { 'content-type': 'text/html' }, '<title>Error 404</title>');
}

function handleTokenRequest(
  { oauth, scripts, faultConfig }: FcmState,
  form: string,
  exchange: Exchange,
): void {
  if (faultConfig.blackHole) return;
  const createDefaultResponse = () =>
    faultConfig.refuseCredential ? createAccountNotFoundResponse() : oauth.grantToken(form);
  const step = scripts.nextForTokenOnly(CHANNEL, OAUTH_SCRIPT_NAME);
  const outcome =
    step === undefined
      ? { ...createDefaultResponse(), fault: 'answer' as const, delayMs: 0 }
      : resolveOutcome(step, createCannedOAuthResponse, createDefaultResponse);
  outcome.delayMs += faultConfig.delayMs;
  applyOutcome(outcome, exchange);
}

/** Creates an OAuth error response by its error code. */
function createCannedOAuthResponse(name: string): ProviderResponse {
  return createJsonResponse(400, { error: name, error_description: 'As scripted.' });
}

function handleSendRequest(
  { handleRequest, oauth, account, faultConfig }: FcmState,
  { authorization, body }: FcmRequest,
  project: string,
  exchange: Exchange,
): void {
  const request = parseJsonObject(body);
  const message = isObject(request?.message) ? request.message : undefined;
  const to = readToken(message);
  handleRequest({
    token: to,
    logFields: {
      to,
      push: readPushId(message),
      headers: {},
      // The text that was sent: numbers that JavaScript would round, and keys in their order.
      payload: message === undefined ? null : (readFieldText(body, 'message') ?? null),
    },
    exchange,
    validate: () => {
      if (faultConfig.refuseCredential || !oauth.isValidAccessToken(authorization))
        return createUnauthenticatedResponse();
      if (project !== account.project_id)
        return { ...createFcmError('NOT_FOUND'), detail: `:path: there is no project ${project}` };
      return validateMessage(request, project);
    },
  });
}
