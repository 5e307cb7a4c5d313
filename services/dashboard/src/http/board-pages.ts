import express, { type RequestHandler, type Router } from 'express';
import { readFiles, sendFile } from './pages.ts';
import type { SessionReader } from './session-reader.ts';

/** Path that Bull Board's pages are under. */
const BOARD_PATH = '/queues/board';
const TEMPLATE = '/index.ejs';

/** Parts of Bull Board's pages. */
export interface BoardPagesParts {
  /** Folder of the library's files. */
  folder: string;
  /** Returns the parameters of the entry page's template. */
  describeEntry: (basePath: string) => Record<string, string>;
  sessions: Pick<SessionReader, 'read'>;
  /** Router of the console's API, which has Bull Board's routes under `/bull-board`. */
  api: RequestHandler;
  /** Policy of the console's pages. */
  contentSecurityPolicy: string;
}

/**
 * Creates the router of Bull Board's pages. Their files are read when they are first opened. The entry page carries
 * the CSRF token of the session, which a script of the console adds to the library's requests.
 */
export function createBoardPages(parts: BoardPagesParts): Router {
  let loading: ReturnType<typeof readFiles> | undefined;
  const router = express.Router();

  router.use('/api', (request, response, next) => {
    request.url = `/bull-board${request.url}`;
    parts.api(request, response, next);
  });

  router.get('/static/*path', async (request, response) => {
    loading ??= readFiles(parts.folder);
    const file = (await loading).get(request.path);
    if (file === undefined) return void response.writeHead(404).end();
    sendFile(request, response, file);
  });

  router.get('/{*path}', async (request, response) => {
    const { host = '', cookie } = request.headers;
    const session = await parts.sessions.read({ host, cookie });
    // The console's own page leads to the login, or gives the reason why the queues are not shown.
    if (session === undefined || session.operator.accounts !== 'all') {
      return void response.writeHead(303, { location: '/queues' }).end();
    }
    loading ??= readFiles(parts.folder);
    const template = (await loading).get(TEMPLATE)?.content.toString() ?? '';
    const html = fillTemplate(template, parts.describeEntry(`${BOARD_PATH}/`), session.csrf);
    response
      .writeHead(200, {
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-store',
        // The page has relative addresses and a base.
        'content-security-policy': parts.contentSecurityPolicy.replace(
          "base-uri 'none'",
          "base-uri 'self'",
        ),
      })
      .end(html);
  });
  return express.Router().use(BOARD_PATH, router);
}

/** Fills the library's template, without its fonts of another host, and with the script for the CSRF token. */
function fillTemplate(template: string, params: Record<string, string>, csrf: string): string {
  const script = `<meta name="csrf-token" content="${csrf}"><script src="/bull-board-csrf.js"></script>`;
  return template
    .replace(/<link[^>]+href="https:[^>]*>/g, '')
    .replace('</head>', () => `${script}</head>`)
    .replace(/<%- uiConfig %>/, () => params.uiConfig ?? '')
    .replace(/<%= (\w+) %>/g, (_, name: string) => escapeHtml(params[name] ?? ''));
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
