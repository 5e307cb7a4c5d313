import { API_ERRORS, type ApiErrorCode } from '@carillon/core/api-error';
import { LIMITS } from '@carillon/core/limits';
import { renderFieldTables } from './field-table.ts';
import {
  escapeHtml,
  renderCodeBlock,
  renderJsonBlock,
  renderName,
  renderProse,
  renderTable,
} from './html.ts';
import { listErrors, type Operation } from './operation.ts';

/**
 * Renders the reference as one HTML page, without scripts and without resources from other hosts.
 *
 * @param version of the product
 */
export function renderReferencePage(operations: readonly Operation[], version: string): string {
  const tags = [...new Set(operations.map(({ tag }) => tag))];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Carillon HTTP API</title>
<link rel="stylesheet" href="/docs/style.css">
</head>
<body>
<nav aria-label="Endpoints">
<a class="home" href="#top">Carillon HTTP API</a>
${tags.map((tag) => renderNav(tag, operations)).join('\n')}
<h2>About</h2>
<ul><li><a href="#limits">Limits</a></li><li><a href="#errors">Errors</a></li><li><a href="/openapi.json">OpenAPI 3.1</a></li></ul>
</nav>
<main id="top">
<h1>HTTP API <small>${escapeHtml(version)}</small></h1>
${INTRODUCTION}
${operations.map(renderSection).join('\n')}
${LIMITS_SECTION}
${renderErrorsSection()}
</main>
</body>
</html>
`;
}

const INTRODUCTION = `<p>Request and response bodies are JSON. Backends authenticate with the app's Secret API Key, in the header
<code>Authorization: Bearer KEY</code> or in the query parameter <code>api_key</code>. Prefer the header, because URLs are often logged.
Never include the key in an app or a web page. Unknown fields are ignored. Times are Unix timestamps in seconds.</p>`;

const LIMITS_SECTION = `<section id="limits"><h2>Limits</h2>
<p>Pro accounts can make ${LIMITS.requestsPerMinute.pro} requests per minute and trial accounts ${LIMITS.requestsPerMinute.trial}, unless the
account has a custom limit. Each response includes the current usage in the headers <code>RateLimit-Limit</code>,
<code>RateLimit-Remaining</code>, and <code>RateLimit-Reset</code> (in seconds). Requests above the limit fail with status 429 and a
<code>Retry-After</code> header. A single request can send to ${LIMITS.tokensPerPush.toLocaleString('en')} devices, or to topics of any size.</p></section>`;

function renderNav(tag: string, operations: readonly Operation[]): string {
  const links = operations
    .filter((operation) => operation.tag === tag)
    .map(({ id, summary }) => `<li><a href="#${id}">${escapeHtml(summary)}</a></li>`);
  return `<h2>${tag}</h2><ul>${links.join('')}</ul>`;
}

function renderSection(operation: Operation): string {
  const { id, method, path, summary, description, request, response } = operation;
  return `<section id="${id}">
<h2>${escapeHtml(summary)}</h2>
<p class="endpoint"><span class="${method}">${method.toUpperCase()}</span> <code>${escapeHtml(path)}</code></p>
<p>${renderProse(description)}</p>
${renderParameters(operation)}
${request === undefined ? '' : `<h3>Request</h3>${renderFieldTables(request.schema, 'input')}`}
${renderCodeBlock(renderCurl(operation))}
<h3>Response</h3>${renderFieldTables(response.schema, 'output')}${renderJsonBlock(response.example)}
<h3>Errors</h3><p>${listErrors(operation).map(renderErrorLink).join(' ')}</p>
</section>`;
}

function renderParameters({ parameters = [] }: Operation): string {
  const rows = parameters.map(
    ({ name, in: location, required, description }) =>
      `<tr><td>${renderName(name)}${required ? ' <b title="required">*</b>' : ''}</td><td>${location}</td><td>${renderProse(description)}</td></tr>`,
  );
  return rows.length === 0
    ? ''
    : `<h3>Parameters</h3>${renderTable('Parameters', ['Name', 'In', 'Description'], rows.join(''))}`;
}

function renderCurl({ method, path, calledBy, request, parameters = [] }: Operation): string {
  const examplePath = parameters.reduce(
    (text, { name, example }) => text.replace(`{${name}}`, String(example)),
    path,
  );
  return [
    `curl -X ${method.toUpperCase()} "$CARILLON${examplePath}"`,
    ...(calledBy === 'backend' ? ['-H "Authorization: Bearer $API_KEY"'] : []),
    ...(request === undefined
      ? []
      : ["-H 'Content-Type: application/json'", `-d '${JSON.stringify(request.example)}'`]),
  ].join(' \\\n  ');
}

function renderErrorLink(code: ApiErrorCode): string {
  return `<a class="code" href="#${code}">${code}</a>`;
}

function renderErrorsSection(): string {
  const rows = Object.entries(API_ERRORS).map(
    ([code, [status, text]]) =>
      `<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${escapeHtml(text)}</td></tr>`,
  );
  const example = { code: 'INVALID_PUSH_ID', error: API_ERRORS.INVALID_PUSH_ID[1] };
  return `<section id="errors"><h2>Errors</h2><p>A failed request returns a JSON object with <code>code</code> and
<code>error</code>.</p>${renderJsonBlock(example)}
${renderTable('Errors', ['Code', 'Status', 'Description'], rows.join(''))}</section>`;
}
