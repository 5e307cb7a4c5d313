import { listCodeBlocks } from '../../test/support/documents/code-blocks.ts';
import { demand, findFiles, readText } from './files.ts';

/** Pages whose code a newcomer copies. */
const PAGES = ['docs/run/deploy-with-compose.md', 'docs/use/move/*.md', 'docs/use/receive/*.md'];
/** Languages of code that needs a phone. Its page says that it was not run. */
const NOT_RUN = ['kotlin', 'swift', 'dart', 'jsx', 'xml'];
const SAYS_SO = /not (?:been )?run|never (?:been )?run/i;
/** In front of a block that needs what no test has. */
const REASON = /^ *<!-- Not run: .+ -->$/;

/** Checks that tests run the code of the pages: `codeBlock(page, heading, nth)` of a test names each block. */
export function checkCodeBlocks(root: string): string[] {
  const tests = findFiles(root, '{test,services,packages}/**/*.test.ts').map((path) =>
    readText(root, path).replaceAll(/\s+/g, ' ').replaceAll('"', "'"),
  );
  return findFiles(root, ...PAGES).flatMap((page) => {
    const text = readText(root, page);
    const ofPage = tests.filter((test) => test.includes(`'${page}'`));
    return listCodeBlocks(text).flatMap(({ heading, nth, language, before }) => {
      if (NOT_RUN.includes(language))
        return demand(SAYS_SO.test(text), `${page} does not say that its ${language} was not run`);
      const name = `'${heading}'${nth === 0 ? '' : `, ${nth}`}`;
      const isRun = ofPage.some((test) => test.includes(name));
      return demand(
        isRun || REASON.test(before),
        `${page}: no test runs block ${nth} under "${heading}"`,
      );
    });
  });
}
