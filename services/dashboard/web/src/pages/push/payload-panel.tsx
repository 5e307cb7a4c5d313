import { Button, Stack } from '@mantine/core';
import { useState } from 'react';
import { useGet } from '../../api/use-get.ts';
import { describeOptions } from '../../lib/compose-body.ts';
import { indentJson } from '../../lib/json-text.ts';
import { CodeBlock } from '../../parts/code-block.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { Panel } from '../../parts/panel.tsx';

/** Shows the payload on demand: each reading is in the audit log. */
export function PayloadPanel({ push }: { push: string }) {
  const [isShown, setShown] = useState(false);
  const payload = useGet(`/pushes/${push}/payload`, {}, { enabled: isShown });
  return (
    <Panel title="Payload" note="Who reads it is in the audit log.">
      {isShown ? (
        <Loaded query={payload} height={160}>
          {({ data, options }) => (
            <Stack gap="sm">
              <CodeBlock text={data} label="Payload" copy="Copy the payload" />
              {Object.keys(options).length > 0 && (
                <CodeBlock
                  text={indentJson(describeOptions(options))}
                  label="Options"
                  copy="Copy the options"
                />
              )}
            </Stack>
          )}
        </Loaded>
      ) : (
        <Button size="xs" variant="default" onClick={() => setShown(true)}>
          Show the payload
        </Button>
      )}
    </Panel>
  );
}
