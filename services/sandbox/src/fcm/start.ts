import { carryOut } from '../answer/carry-out.ts';
import type { Conduct } from '../answer/conduct.ts';
import { createMeet, type Meet } from '../answer/meet.ts';
import type { Scripts } from '../answer/scripts.ts';
import { endingOf } from '../answer/step.ts';
import { jsonVerdict, type Verdict } from '../answer/verdict.ts';
import { type ServiceAccount, writeServiceAccount } from '../files/ensure-files.ts';
import { readBody } from '../wire/body.ts';
import type { Exchange } from '../wire/exchange.ts';
import { isObject, readObject } from '../wire/jwt.ts';
import type { Shared } from '../wire/shared.ts';
import { type At, createTlsServer, exchangeOf } from '../wire/tls-server.ts';
import { fcmError, namedFcm } from './errors.ts';
import { judge, tokenOf, unauthenticated } from './judge.ts';
import { createOAuth, type OAuth, refusedAccount } from './oauth.ts';

const CHANNEL = 'fcm';
const SEND = /^\/v1\/projects\/([^/]+)\/messages:send$/;
/** The script of this name is for `POST /token`. */
const OAUTH_SCRIPT = 'oauth';

interface Fcm {
  meet: Meet;
  oauth: OAuth;
  account: ServiceAccount;
  scripts: Scripts;
  conduct: Readonly<Conduct>;
}

/** A request whose body has come. */
interface Came {
  method: string | undefined;
  path: string;
  authorization: string | undefined;
  body: string;
}

/** Starts what plays FCM and Google's OAuth. */
export async function startFcm(
  { files, journal, scripts, conducts, host }: Shared,
  at: At,
  folder: string,
): Promise<{ port: number; serviceAccount: ServiceAccount; stop(): Promise<void> }> {
  const conduct = conducts.of(CHANNEL);
  const server = createTlsServer({
    server: files.server,
    ca: files.ca,
    allowHttp1: true,
    conduct,
    onConnection: () => journal.connected(CHANNEL),
  });
  const meet = createMeet({ channel: CHANNEL, scripts, journal, conduct, named: namedFcm });
  const port = await server.listen(at);
  const shown = host.includes(':') ? `[${host}]` : host;
  const account = writeServiceAccount(
    folder,
    files.serviceAccountKey,
    `https://${shown}:${port}/token`,
  );
  const oauth = createOAuth(account);
  const fcm: Fcm = { meet, oauth, account, scripts, conduct };
  conducts.listen(CHANNEL, { streamLimit: server.limitStreams, expireTokens: oauth.expire });
  server.http.on('request', (request, response) => {
    const exchange = exchangeOf(request, response, server.cut);
    const { method, headers } = request;
    const [path = ''] = (request.url ?? '').split('?');
    readBody(request, (body) => {
      const came = { method, path, authorization: headers.authorization, body: body.toString() };
      receive(fcm, came, exchange);
    });
  });
  return { port, serviceAccount: account, stop: server.stop };
}

function receive(fcm: Fcm, came: Came, exchange: Exchange): void {
  const isPost = came.method === 'POST';
  const project = SEND.exec(came.path)?.[1];
  if (isPost && came.path === '/token') grant(fcm, came.body, exchange);
  else if (isPost && project !== undefined) send(fcm, came, project, exchange);
  else exchange.answer(404, { 'content-type': 'text/html' }, '<title>Error 404</title>');
}

function grant({ oauth, scripts, conduct }: Fcm, form: string, exchange: Exchange): void {
  if (conduct.blackHole) return;
  const usual = () => (conduct.refuseCredential ? refusedAccount() : oauth.grant(form));
  const step = scripts.nextOwn(CHANNEL, OAUTH_SCRIPT);
  const ending =
    step === undefined
      ? { ...usual(), act: 'answer' as const, delayMs: 0 }
      : endingOf(step, namedOAuth, usual);
  ending.delayMs += conduct.delayMs;
  carryOut(ending, exchange);
}

/** Errors of OAuth by their word. */
function namedOAuth(name: string): Verdict {
  return jsonVerdict(400, { error: name, error_description: 'As scripted.' });
}

function send(
  { meet, oauth, account, conduct }: Fcm,
  { authorization, body }: Came,
  project: string,
  exchange: Exchange,
): void {
  const request = readObject(body);
  const message = isObject(request?.message) ? request.message : undefined;
  const data = isObject(message?.data) ? message.data : {};
  const to = tokenOf(message);
  meet({
    token: to,
    asked: {
      to,
      push: typeof data._pushyId === 'string' ? data._pushyId : null,
      headers: {},
      payload: message === undefined ? null : JSON.stringify(message),
    },
    exchange,
    judge: () => {
      if (conduct.refuseCredential || !oauth.isAlive(authorization)) return unauthenticated();
      if (project !== account.project_id) return fcmError('NOT_FOUND');
      return judge(request, project);
    },
  });
}
