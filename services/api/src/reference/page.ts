import { API_ERRORS, type ApiErrorCode } from '@carillon/core/api-error';
import { LIMITS } from '@carillon/core/limits';
import { fieldTables } from './field-table.ts';
import { escapeHtml, jsonBlock, proseHtml } from './html.ts';
import { errorsOf, type Operation } from './operation.ts';

/**
 * The reference as one page of HTML, without scripts and without anything from another host.
 *
 * @param version of the product
 */
export function referencePage(operations: readonly Operation[], version: string): string {
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
${tags.map((tag) => navOf(tag, operations)).join('\n')}
<h2>About</h2>
<ul><li><a href="#limits">Limits</a></li><li><a href="#errors">Errors</a></li><li><a href="/openapi.json">OpenAPI 3.1</a></li></ul>
</nav>
<main id="top">
<h1>HTTP API <small>${escapeHtml(version)}</small></h1>
${INTRODUCTION}
${operations.map(sectionOf).join('\n')}
${LIMITS_SECTION}
${errorsSection()}
</main>
</body>
</html>
`;
}

const INTRODUCTION = `<p>Requests and answers are JSON. Backends prove themselves with the app's Secret API Key, as the header
<code>Authorization: Bearer KEY</code> or the query parameter <code>api_key</code>; the header is better, for URLs end up in logs.
The key must never be part of an app or a page. Unknown fields are ignored. Times are unix timestamps in seconds.</p>`;

const LIMITS_SECTION = `<section id="limits"><h2>Limits</h2>
<p>${LIMITS.requestsPerMinute.pro} requests a minute for pro accounts and ${LIMITS.requestsPerMinute.trial} for trial accounts, unless the
account has a limit of its own. Each answer tells where you stand: <code>RateLimit-Limit</code>, <code>RateLimit-Remaining</code>,
<code>RateLimit-Reset</code> (seconds). Over the limit comes 429 with <code>Retry-After</code>. One request may reach
${LIMITS.tokensPerPush.toLocaleString('en')} devices, or a topic of any size.</p></section>`;

function navOf(tag: string, operations: readonly Operation[]): string {
  const links = operations
    .filter((operation) => operation.tag === tag)
    .map(({ id, summary }) => `<li><a href="#${id}">${escapeHtml(summary)}</a></li>`);
  return `<h2>${tag}</h2><ul>${links.join('')}</ul>`;
}

function sectionOf(operation: Operation): string {
  const { id, method, path, summary, description, request, response } = operation;
  return `<section id="${id}">
<h2>${escapeHtml(summary)}</h2>
<p class="endpoint"><span class="${method}">${method.toUpperCase()}</span> <code>${escapeHtml(path)}</code></p>
<p>${proseHtml(description)}</p>
${parametersOf(operation)}
${request === undefined ? '' : `<h3>Request</h3>${fieldTables(request.schema, 'input')}`}
<pre><code>${escapeHtml(curlOf(operation))}</code></pre>
<h3>Answer</h3>${fieldTables(response.schema, 'output')}${jsonBlock(response.example)}
<h3>Errors</h3><p>${errorsOf(operation).map(errorLink).join(' ')}</p>
</section>`;
}

function parametersOf({ parameters = [] }: Operation): string {
  const rows = parameters.map(
    ({ name, in: place, required, description }) =>
      `<tr><td><code>${name}</code>${required ? ' <b title="required">*</b>' : ''}</td><td>${place}</td><td>${proseHtml(description)}</td></tr>`,
  );
  return rows.length === 0
    ? ''
    : `<h3>Parameters</h3><table><thead><tr><th>Name</th><th>In</th><th>Meaning</th></tr></thead><tbody>${rows.join('')}</tbody></table>`;
}

function curlOf({ method, path, calledBy, request, parameters = [] }: Operation): string {
  const filled = parameters.reduce(
    (text, { name, example }) => text.replace(`{${name}}`, String(example)),
    path,
  );
  return [
    `curl -X ${method.toUpperCase()} "$CARILLON${filled}"`,
    ...(calledBy === 'backend' ? ['-H "Authorization: Bearer $API_KEY"'] : []),
    ...(request === undefined
      ? []
      : ["-H 'Content-Type: application/json'", `-d '${JSON.stringify(request.example)}'`]),
  ].join(' \\\n  ');
}

function errorLink(code: ApiErrorCode): string {
  return `<a class="code" href="#${code}">${code}</a>`;
}

function errorsSection(): string {
  const rows = Object.entries(API_ERRORS).map(
    ([code, [status, text]]) =>
      `<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${escapeHtml(text)}</td></tr>`,
  );
  const example = { code: 'INVALID_PUSH_ID', error: API_ERRORS.INVALID_PUSH_ID[1] };
  return `<section id="errors"><h2>Errors</h2><p>Every answer other than success is JSON with <code>code</code> and
<code>error</code>.</p>${jsonBlock(example)}<table><thead><tr><th>Code</th><th>Status</th><th>Meaning</th></tr></thead>
<tbody>${rows.join('')}</tbody></table></section>`;
}
