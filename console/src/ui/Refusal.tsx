// A refusal of the server in words: sentence, numbers, next step, code.
import { IconBan } from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'
import { Problem } from '../api/problem'
import { findTitle, useServerWords } from '../app/serverWords'
import { ServerText } from './ServerText'

/** The sentence of an error in the viewer's language. One without Chinese stands below the title of its code. */
export function useRefusalWords(): (error: unknown) => {
  sentence: string
  detail: string
  hint: string
  code: string
} {
  const { t } = useTranslation('problems')
  const translate = useServerWords()
  return (error) => {
    if (!(error instanceof Problem)) {
      return { sentence: t('unreachable'), detail: '', hint: '', code: '' }
    }
    const { message, hint, code } = error
    const words = translate(message)
    const title = words === message ? findTitle(code) : ''
    return title ? { sentence: title, detail: message, hint, code } : { sentence: words, detail: '', hint, code }
  }
}

export function Refusal(props: { error: unknown }) {
  const words = useRefusalWords()(props.error)
  return (
    <div className="verdict refused" role="alert">
      <IconBan size={20} color="var(--fault)" aria-hidden />
      <div>
        <b>{words.sentence}</b>
        {words.detail && <p lang="en">{words.detail}</p>}
        {words.hint && (
          <p className="sub">
            <ServerText text={words.hint} />
          </p>
        )}
        {words.code && <p className="dim mono">{words.code}</p>}
      </div>
    </div>
  )
}
