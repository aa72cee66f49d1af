// A secret that the server shows once.
import { Button } from '@mantine/core'
import { useTranslation } from 'react-i18next'
import { CopyButton } from './Page'

export function Secret(props: { text: string; title: string; onClose: () => void }) {
  const { t } = useTranslation('shell')
  return (
    <div className="verdict secret" role="status">
      <div className="grow">
        <b>{props.title}</b>
        <p className="row">
          <code className="mono word">{props.text}</code>
          <CopyButton text={props.text} label={t('copySecret')} />
        </p>
        <p>{t('secretText')}</p>
        <p>
          <Button size="xs" variant="default" onClick={props.onClose}>
            {t('secretKept')}
          </Button>
        </p>
      </div>
    </div>
  )
}
