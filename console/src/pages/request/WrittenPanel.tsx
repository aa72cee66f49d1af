import { SegmentedControl } from '@mantine/core'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { CopyButton, Panel } from '../../ui/Page'

/** The same request as a command and as YAML, in the server's own words. */
export function WrittenPanel(props: { command: string | null; manifest: string | null }) {
  const { t } = useTranslation('request')
  const [format, setFormat] = useState('cli')
  const text = format === 'cli' ? props.command : props.manifest
  return (
    <Panel
      title={t('written')}
      right={
        <>
          <SegmentedControl
            size="xs"
            aria-label={t('format')}
            data={[
              { value: 'cli', label: 'CLI' },
              { value: 'yaml', label: 'YAML' },
            ]}
            value={format}
            onChange={setFormat}
          />
          {text && <CopyButton text={text} label={t('copy')} />}
        </>
      }
    >
      <pre className="code mono" tabIndex={0}>
        {text ?? t('notWritten')}
      </pre>
    </Panel>
  )
}
